"""Every sharding rule of DTensor and of TorchRec against the unsharded operation, for `lockstep prove --rules`."""
