"""Kube-Knots' large cluster (V-C, VI-E): trainings of hours beside inference of milliseconds, and two schedulers of trainings."""
