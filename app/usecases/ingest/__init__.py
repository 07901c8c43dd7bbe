"""Batches into sketches. The way of a batch, module by module:

1. `submission`: what a request submits, once its body is read.
2. `queue`: submissions of one sketch wait in the order in which their bodies were complete; a thread counts them.
3. `count`: what happens to a group of them. It is folded before any lock is taken, then stored in one of two ways:
4. `fast_path`: one conditional write, which is a transaction of its own, where nothing else is to be looked up;
5. `transaction`: else a transaction that locks the state and looks everything up.

`people` bounds what each person contributes, where a sketch enforces that.
"""
