"""Suspensions, waitpoints and signals."""
