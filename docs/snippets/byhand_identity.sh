glassformer byhand identity --keys worked --bound 10
