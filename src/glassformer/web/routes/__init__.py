"""Routes: one small module for each part of the page. Each reads its words, calls one function and answers in JSON."""
