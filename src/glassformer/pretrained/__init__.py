"""Pretrained: folders of Hugging Face's form -> our models and tokenizers, and the other way. Runs no code of a folder."""
