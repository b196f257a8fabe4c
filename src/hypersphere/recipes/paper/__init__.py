"""The paper: a module for each table or figure."""
