"""Every table of the documents as settings: one module a table or group of tables, published numbers beside them."""

from .registry import find, get, list_recipes, tables
from .table import Cell, Table

__all__ = ["Cell", "Table", "find", "get", "list_recipes", "tables"]
