"""Text encoders: transformers that turn texts into vectors."""
