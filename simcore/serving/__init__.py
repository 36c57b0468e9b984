"""The engine: KV ledger, scheduler and step kernel, and the service around them.

Read in this order: state (what there is), ledger and scheduler (what one step may do), engine
(begin, commit, run), service (the clock and the outside world).
"""
