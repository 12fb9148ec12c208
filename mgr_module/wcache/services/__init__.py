"""The use cases behind commands that change or cost something."""
