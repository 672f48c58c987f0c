"""Knowledge: questions and answers, made-up worlds, and what a model retrieves, guesses or makes up."""
