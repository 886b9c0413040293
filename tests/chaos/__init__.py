"""Crash chaos: real processes on a real database, killed and stopped at random, and a checker that
reconciles what they saw.
"""
