"""What the documentation site is made of beside docs/*.md: pages from code, numbers and other files of the project."""
