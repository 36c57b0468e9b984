"""The engine: KV ledger, scheduler and step kernel, and the service around them.

Read in this order: state (what there is), ledger (blocks), reservation, preemption, admission and
scheduler (what one step may do), begin and commit (one step), engine (many), service (the clock and
the outside world), simulation (from a scenario to records).
"""
