"""Mutations: changes for the worse in what keeps data safe, each of which a test must notice."""
