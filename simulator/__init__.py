"""GPUs, kernel log, kubelet and control plane to try failures without hardware."""
