"""A fleet that grows under `auto apply`, in virtual time, on the module's real code."""
