//! Upstreams: connections to the members of a [`Group`](logdrive_ship::upstream::Group), shared by all threads.

mod chooser;
mod member_sender;
mod one_way;
mod pool;

pub use pool::{Upstream, UpstreamOptions};
