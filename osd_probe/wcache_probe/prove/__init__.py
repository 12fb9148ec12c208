"""Does the toggle of a drive behind a translation take, tell the truth, and come back?"""
