//! Tests of the engine as a whole.
use crate::*;
use std::sync::{Arc, Mutex};

#[tokio::test]
async fn smoke() {
    let dir = std::env::temp_dir().join(format!("pintle-store-smoke-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let s = Embedded::open(&dir, Options::default()).unwrap();
    assert_eq!(s.write(Write::put("/a", Expect::Absent, "x")).await, Ok(Revision(2)));
    assert!(matches!(
        s.write(Write::put("/a", Expect::Absent, "x")).await,
        Err(WriteError::Conflict { current: Some(_), .. })
    ));
    assert_eq!(
        s.commit(vec![
            Write::put("/a", Expect::Revision(Revision(2)), "y"),
            Write::put("/b", Expect::Any, "z")
        ])
        .await,
        Ok(vec![Revision(3), Revision(4)])
    );
    println!("{}", Embedded::open(&dir, Options::default()).err().unwrap());
    s.close().await;
    let s = Embedded::open(&dir, Options::default()).unwrap();
    struct N(Mutex<Vec<Change>>);
    impl Sink for N {
        fn apply(&self, c: &[Change]) {
            self.0.lock().unwrap().extend_from_slice(c)
        }
    }
    let l = s.load(Arc::new(N(Mutex::default())));
    println!("{l:?}");
    std::fs::remove_dir_all(&dir).unwrap();
}
