"""x"""
def configure(p): pass
