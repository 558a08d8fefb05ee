//! The pod and the container whose log a file of Kubernetes is, by its path.

use crate::foreign::record::ForeignValue;
use logdrive_query::GivenName;
use std::path::Path;

/// Digits of a container's id, as its files have them.
const ID_DIGITS: usize = 64;

/// A container of a pod.
///
/// ```
/// use logdrive_reader::foreign::PodContainer;
/// let path = "/var/log/pods/shop_orders-7d9_0b1c/server/0.log";
/// let found = PodContainer::of_path(path.as_ref()).expect("a file of a pod");
/// assert_eq!((&*found.namespace, &*found.pod, &*found.container), ("shop", "orders-7d9", "server"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodContainer {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// Name of the container.
    pub container: String,
}

impl PodContainer {
    /// Reads `.../pods/NAMESPACE_POD_UID/CONTAINER/N.log` and `.../containers/POD_NAMESPACE_CONTAINER-ID.log`; `None` for any
    /// other path.
    pub fn of_path(path: &Path) -> Option<Self> {
        let mut parts = path.iter().rev().map(|part| part.to_str());
        let file = parts.next()??;
        let dir = parts.next()??;
        if dir == "containers" {
            let name = file.split_once(".log").map(|(name, _)| name)?;
            let (name, id) = name.rsplit_once('-')?;
            let is_id = id.len() == ID_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
            let mut names = name.splitn(3, '_').filter(|_| is_id);
            let (pod, namespace, container) = (names.next()?, names.next()?, names.next()?);
            return Self::new(namespace, pod, container);
        }
        let pod_dir = parts.next()??;
        let is_pods = parts.next()?? == "pods";
        let mut names = pod_dir.splitn(3, '_').filter(|_| is_pods);
        let (namespace, pod, _uid) = (names.next()?, names.next()?, names.next()?);
        Self::new(namespace, pod, dir)
    }

    fn new(namespace: &str, pod: &str, container: &str) -> Option<Self> {
        let are_named = ![namespace, pod, container].contains(&"");
        are_named.then(|| Self {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            container: container.to_owned(),
        })
    }

    /// Returns the names with the keys `namespace`, `pod` and `container`.
    pub fn into_names(self) -> [(&'static str, String); 3] {
        [
            (GivenName::Namespace.text(), self.namespace),
            (GivenName::Pod.text(), self.pod),
            (GivenName::Container.text(), self.container),
        ]
    }

    /// Returns the same as fields.
    pub fn into_fields(self) -> [(String, ForeignValue); 3] {
        self.into_names()
            .map(|(key, name)| (key.to_owned(), ForeignValue::Text(name.into_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_kubernetes_name_their_pod() {
        let id = "0123456789abcdef".repeat(4);
        for (path, expected) in [
            (
                "/var/log/pods/shop_orders-7d9_0b1c-4a/server/0.log".to_owned(),
                Some("shop orders-7d9 server"),
            ),
            (
                "/var/log/pods/shop_orders-7d9_0b1c-4a/server/3.log.20261121-123456.gz".to_owned(),
                Some("shop orders-7d9 server"),
            ),
            (
                format!("/var/log/containers/orders-7d9_shop_web-server-{id}.log"),
                Some("shop orders-7d9 web-server"),
            ),
            ("/var/log/containers/orders_shop_server-17.log".to_owned(), None),
            ("/var/log/pods/shop/server/0.log".to_owned(), None),
            ("/var/log/pods/__/x/0.log".to_owned(), None),
            ("/var/log/nginx/access.log".to_owned(), None),
            ("0.log".to_owned(), None),
        ] {
            let found = PodContainer::of_path(Path::new(&path));
            let shown = found.map(|found| format!("{} {} {}", found.namespace, found.pod, found.container));
            assert_eq!(shown.as_deref(), expected, "{path}");
        }
    }
}
