"""Files that an import puts into a task folder unchanged: they bring a format's own modules into the shape of a task.

They run in runner processes alone; the engine copies their text and never imports them.
"""
