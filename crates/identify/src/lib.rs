//! What drive is this? The parameters of an SSD, found by asking it and taking the time.
