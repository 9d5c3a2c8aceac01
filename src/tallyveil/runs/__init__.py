"""Many runs of a mechanism: batches, pools of processes, stores that can be resumed, and progress."""
