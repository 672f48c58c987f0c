"""What is compared: the plan, its variants and settings, their data, and what the study will cost and can find."""
