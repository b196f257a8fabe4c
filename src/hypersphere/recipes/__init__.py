"""Every table and figure of the documents as settings: a file for each chapter, the published numbers beside them."""

from .registry import find, get, list_recipes, tables
from .table import Cell, Table

__all__ = ["Cell", "Table", "find", "get", "list_recipes", "tables"]
