"""How a study is run: trials on executors, the trial store, progress, and the results that trials leave."""
