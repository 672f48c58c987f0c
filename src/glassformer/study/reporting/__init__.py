"""What is shown: sentences, notes and the page of a study."""
