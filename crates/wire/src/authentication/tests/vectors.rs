//! Transcripts computed by another program (Python's hashlib, hmac and pow).

/// A transcript: hash function, group, the host's secret, the controller's or nothing, and the
/// SHA-256 of all messages, one behind the other.
pub(super) type Transcript = (u8, u8, &'static str, &'static str, &'static str);

pub(super) const TRANSCRIPTS: [Transcript; 9] = [
    (
        1,
        0,
        "DHHC-1:00:AAcOFRwjKjE4P0ZNVFtiaXB3foWMk5qhqK+2vcTL0tk/PUPo:",
        "",
        "f613d5ac389f8e47272cb1b961e1ee43bfaf22ee987185de18acec42596893b4",
    ),
    (
        1,
        0,
        "DHHC-1:01:AQgPFh0kKzI5QEdOVVxjanF4f4aNlJuiqbC3vsXM09pl1OOC:",
        "DHHC-1:01:ZXB7hpGcp7K9yNPe6fT/ChUgKzZBTFdibXiDjpmkr7oqgngc:",
        "053e1deda1acbcc75d963286da783ceabde694c7b854cbb0a94fef70db34480f",
    ),
    (
        2,
        0,
        "DHHC-1:02:AgkQFx4lLDM6QUhPVl1ka3J5gIeOlZyjqrG4v8bN1Nvi6fD3/gUMExohKC82PURLIrqU+w==:",
        "DHHC-1:00:ZG96hZCbprG8x9Ld6PP+CRQfKjVAS1ZhbHeCjZijrrmbSII1:",
        "7148ab4a9070017d4bbfb85ef68ac565fd0a87311dcae7719d630a269d908078",
    ),
    (
        3,
        0,
        "DHHC-1:03:AwoRGB8mLTQ7QklQV15lbHN6gYiPlp2kq7K5wMfO1dzj6vH4/wYNFBsiKTA3PkVMU1phaG92fYSLkpmgp661vPDs2cs=:",
        "DHHC-1:03:Z3J9iJOeqbS/ytXg6/YBDBciLThDTllkb3qFkJumsbzH0t3o8/4JFB8qNUBLVmFsd4KNmKOuucTP2uXw+wYRHLbJebk=:",
        "fd5fbcf60157a9162704092ef70b423fe1d9ad3ed3d85edaf63f4b27b366a195",
    ),
    (
        1,
        1,
        "DHHC-1:01:AQgPFh0kKzI5QEdOVVxjanF4f4aNlJuiqbC3vsXM09pl1OOC:",
        "",
        "6c70f7e2e34edf098b761fcd09e20762d7ce2b398f547c2788de64a34c7c6c4a",
    ),
    (
        2,
        2,
        "DHHC-1:00:AAcOFRwjKjE4P0ZNVFtiaXB3foWMk5qhqK+2vcTL0tk/PUPo:",
        "DHHC-1:02:ZnF8h5KdqLO+ydTf6vUACxYhLDdCTVhjbnmEj5qlsLvG0dzn8v0IEx4pND9KVWBr+lyN0g==:",
        "ab4b0b3e9d4cd7602e846a6bc775065922dbf968d07679453389703a239a2d70",
    ),
    (
        3,
        3,
        "DHHC-1:03:AwoRGB8mLTQ7QklQV15lbHN6gYiPlp2kq7K5wMfO1dzj6vH4/wYNFBsiKTA3PkVMU1phaG92fYSLkpmgp661vPDs2cs=:",
        "DHHC-1:01:ZXB7hpGcp7K9yNPe6fT/ChUgKzZBTFdibXiDjpmkr7oqgngc:",
        "ad944d7e788e028c5c2991b786a27da61e308e7cad245b414bdb9f46110994bc",
    ),
    (
        1,
        4,
        "DHHC-1:02:AgkQFx4lLDM6QUhPVl1ka3J5gIeOlZyjqrG4v8bN1Nvi6fD3/gUMExohKC82PURLIrqU+w==:",
        "DHHC-1:03:Z3J9iJOeqbS/ytXg6/YBDBciLThDTllkb3qFkJumsbzH0t3o8/4JFB8qNUBLVmFsd4KNmKOuucTP2uXw+wYRHLbJebk=:",
        "d5831b7cc627e4583a8e5b05311ff9f0cf53cf0e83ed8631571de38333a1fb79",
    ),
    (
        3,
        5,
        "DHHC-1:01:AQgPFh0kKzI5QEdOVVxjanF4f4aNlJuiqbC3vsXM09pl1OOC:",
        "",
        "84aa6ad0793332036f951780e7b1242047231db2714c858bfaedc5fbd0fe77b4",
    ),
];
