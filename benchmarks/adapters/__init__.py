"""How each tool is driven: one module per tool, each with a class `Driver` that follows `base.Adapter`."""
