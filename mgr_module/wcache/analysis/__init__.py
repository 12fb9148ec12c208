"""The statistics (numpy, scipy); imported only in a child process, never in a mgr."""
