"""The timing study: how often is the performance gate right on a card, on kernels whose ratio is known?

``plan`` what is asked, ``lab`` the card, ``simulated`` a stand-in without one, ``usual`` the usual ways of
timing, ``crosscheck`` other tools' times, ``report`` the table and the plot.
"""
