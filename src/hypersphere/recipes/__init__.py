"""Every table and figure of the paper and the dissertation as settings, with the published numbers beside them."""

from .published import Comparison, Published, published
from .registry import find, find_table, get, list_recipes, tables
from .table import Cell, Table

__all__ = [
    "Cell",
    "Comparison",
    "Published",
    "Table",
    "find",
    "find_table",
    "get",
    "list_recipes",
    "published",
    "tables",
]
