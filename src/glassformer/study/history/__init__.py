"""What was tried before: the ledger of studies, and stored baseline runs."""
