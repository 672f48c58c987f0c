"""Import and export of Hugging Face folders, and tuning of pretrained encoders. Runs no code of a folder."""
