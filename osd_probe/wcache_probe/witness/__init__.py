"""A witness on another machine: which acknowledged writes does a drive lose at a power cut?"""
