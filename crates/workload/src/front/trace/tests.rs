use super::*;

fn events(format: KeyTraceFormat, bytes: &[u8]) -> Result<Vec<(Event, Option<Time>)>, String> {
    let name = format!("mynah-key-trace-{}-{:?}-{}", std::process::id(), format, bytes.len());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, bytes).expect("a folder for files");
    let trace = KeyTrace {
        path: path.clone(),
        format,
        speed: 2.0,
        depth: None,
        repeat: 1,
        token_bytes: 10,
    };
    let mut reader = KeyTraceReader::open(&trace).map_err(|error| error.to_string())?;
    let mut all = vec![];
    loop {
        match reader.next() {
            Ok(Some(event)) => all.push(event),
            Ok(None) => break,
            Err(error) => {
                let _ = std::fs::remove_file(&path);
                return Err(error.to_string());
            }
        }
    }
    let _ = std::fs::remove_file(&path);
    Ok(all)
}

fn touches(format: KeyTraceFormat, text: &str) -> Vec<(u64, u32, u64, Touch, u64)> {
    let all = events(format, text.as_bytes()).expect("a valid trace");
    let touch = |(event, _): (Event, Option<Time>)| match event {
        Event::Touch { at_us, key_bytes, bytes, touch, times, .. } => {
            (at_us, key_bytes, bytes, touch, times)
        }
        Event::Prefix { .. } => panic!("an operation"),
    };
    all.into_iter().map(touch).collect()
}

#[test]
fn twitters_keys_may_have_commas() {
    let text = "0,a,b,3,100,7,get,0\n5,plain,5,12,1,cas,86400\n5,x,1,0,2,delete,0\n";
    let expected = [
        (0, 3, 100, Touch::Get, 1),
        (5_000_000, 5, 12, Touch::Set, 1),
        (5_000_000, 1, 0, Touch::Delete, 1),
    ];
    assert_eq!(touches(KeyTraceFormat::Twitter, text), expected);
}

#[test]
fn cachelibs_columns_go_by_name() {
    // 202206, and 202401 with times and more columns.
    let old = "key,op,size,op_count,key_size\nk1,GET,70,3,20\nk2,SET_LEASE,9,1,21\n";
    assert_eq!(
        touches(KeyTraceFormat::CacheLib, old),
        [(0, 20, 70, Touch::Get, 3), (0, 21, 9, Touch::Set, 1)]
    );
    let new = "op_time,key,key_size,op,op_count,size,cache_hits,ttl,usecase,sub_usecase\n\
               17,k1,20,DELETE,1,0,0,0,3,1\n";
    assert_eq!(touches(KeyTraceFormat::CacheLib, new), [(17_000_000, 20, 0, Touch::Delete, 1)]);
}

#[test]
fn of_mlperf_only_the_drive_counts() {
    let text = "Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n\
                1000.5,Write,131072,Tier-2,a,Prefill\n1001.0,Read,131072,Tier-1,a,Decode\n\
                1002.25,Read,131072,Tier-2,a,Decode\n";
    let expected =
        [(1_000_500_000, 0, 131_072, Touch::Set, 1), (1_002_250_000, 0, 131_072, Touch::Get, 1)];
    assert_eq!(touches(KeyTraceFormat::MlPerf, text), expected);
}

#[test]
fn records_of_libcachesim() {
    let mut bytes = vec![];
    for (at, key, size) in [(3u32, 0x0102_0304_0506_0708u64, 4096u32), (4, 9, 1)] {
        bytes.extend(at.to_le_bytes());
        bytes.extend(key.to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend((-1i64).to_le_bytes());
    }
    let all = events(KeyTraceFormat::OracleGeneral, &bytes).expect("a valid trace");
    let Event::Touch { at_us: 3_000_000, key: 0x0102_0304_0506_0708, bytes: 4096, .. } = all[0].0
    else {
        panic!("{all:?}")
    };
    bytes.truncate(40);
    assert!(events(KeyTraceFormat::OracleGeneral, &bytes).is_err());
}

#[test]
fn requests_have_blocks() {
    let text = "{\"timestamp\": 1500, \"input_length\": 600, \"output_length\": 3, \"hash_ids\": [7, 9]}\n\
                {\"session_id\": \"x\", \"hash_ids\": []}\n";
    let all = events(KeyTraceFormat::Mooncake, text.as_bytes()).expect("a valid trace");
    assert_eq!(all[0].0, Event::Prefix { at_us: Some(1_500_000), blocks: vec![7, 9] });
    assert_eq!(all[1], (Event::Prefix { at_us: None, blocks: vec![] }, None));
}

#[test]
fn what_does_not_fit_is_said() {
    for (format, text) in [
        (KeyTraceFormat::Twitter, "1,a,1\n"),
        (KeyTraceFormat::Twitter, "1,a,1,2,3,fly,0\n"),
        (KeyTraceFormat::CacheLib, "a,b,c\n1,2,3\n"),
        (KeyTraceFormat::CacheLib, "key,op,size\nk,GET,many\n"),
        (KeyTraceFormat::MlPerf, "Timestamp,Operation\n"),
        (KeyTraceFormat::Mooncake, "{\"timestamp\": 1}\n"),
        (KeyTraceFormat::Qwen, "{\"timestamp\": -1, \"hash_ids\": [1]}\n"),
    ] {
        let error = events(format, text.as_bytes()).expect_err(text);
        assert!(error.contains(":1:") || error.contains(":2:"), "{error}");
    }
}
