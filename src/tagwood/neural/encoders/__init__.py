"""Text encoders: networks that turn texts into vectors."""
