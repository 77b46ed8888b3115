"""The parts of `./berth up`: preflight, broker, supervisor, first start.

Imports no Django: the steps of the first start that need it run in a process of their own (`portal.launch.prepare`).
"""
