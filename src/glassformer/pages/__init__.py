"""Report: plain tables and figures -> one self-contained page. Knows no run and no study."""
