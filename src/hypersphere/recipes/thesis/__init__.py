"""The dissertation: a module for each table or figure; what a chapter shares is in its private module."""
