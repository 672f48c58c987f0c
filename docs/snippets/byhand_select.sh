glassformer byhand select 1 --keys worked --bound 10
