"""CEL selectors of devices, as Kubernetes 1.37 evaluates them: true, false, or not known and why.

What cannot be evaluated as the scheduler does it is `NotEvaluated`, and never a guess.
"""
