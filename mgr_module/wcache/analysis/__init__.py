"""Statistics with numpy and scipy; imported only in a child process, never in a mgr."""
