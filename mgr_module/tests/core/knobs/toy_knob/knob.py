"""The toy as a knob: its name, and the option of the config database that it sets."""

from wcache.core.knobs.knob import Knob

DEPTH = "osd_toy_depth"
TOY = Knob("toy", "how many writes the toy lets wait", (DEPTH,))
