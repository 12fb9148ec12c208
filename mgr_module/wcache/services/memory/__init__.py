"""The use cases behind `ceph wcache memory ...`, and the planner of its knob."""
