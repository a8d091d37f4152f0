#pragma once
// The texts of golden_forms_test.cpp, as programs of before wrote them.
namespace lockstep::mgmt::golden {

constexpr const char* kApply =
    R"json({"arbiter":{"ca":"ca","certificate":"cert","endpoints":["https://w1:2379","https://w2:2379"],"key":"key",
"kind":"witness","password":"password","seal":{"one":"seal-one","other":"seal-other"},"user":"user"},
"node":{"id":"00000000-0000-4000-8000-000000000002","name":"node-a","side":"a"},
"pair":{"id":"00000000-0000-4000-8000-000000000001","name":"pair1"},
"partner":{"link":{"also":{"chap_secret":"l2-secret","chap_user":"l2","mutual_secret":"a2-secret",
"mutual_user":"a2"},"chap_secret":"link-secret","chap_user":"link","connect":"10.0.0.11:3261",
"listen":"10.0.0.11:3261","mutual_secret":"answer-secret","mutual_user":"answer"},"name":"node-b",
"portals":["10.0.0.11:3260","[fd00::11]:3260"]},"revision":9,"settings":{"lease_ms":2000,"resync_ceiling":2,
"resync_floor":1},"target":{"discovery_auth":{"chap_secret":"finder-secret","chap_user":"finder",
"mutual_secret":null,"mutual_user":null},"name":"iqn.2026-11.io.lockstep:pair1","portals":["10.0.0.11:3260",
"[fd00::11]:3260"]},"volumes":[{"access":[{"chap_secret":"s","chap_user":"u",
"initiator":"iqn.2000-01.com.example:h1","mutual_secret":"ms","mutual_user":"m","old":{"chap_secret":"os",
"chap_user":"ou","mutual_secret":"oms","mutual_user":"om","until_ms":99}},{"chap_secret":null,"chap_user":null,
"initiator":"iqn.2000-01.com.example:h2","mutual_secret":null,"mutual_user":null}],"block_size":4096,
"data":"/v/00000000-0000-4000-8000-000000000003.data","encrypted":true,"id":"00000000-0000-4000-8000-000000000003",
"lun":7,"metadata":"/v/00000000-0000-4000-8000-000000000003.meta","mirrored":true,"name":"vm1",
"physical_block_size":4096,"read_only":true,"removable":true,"serial":"serial1","size":1048576,"thin":false,
"write_cache":true}]})json";

constexpr const char* kChangingPreference =
    R"json({"access":null,"changing":true,"endpoints":[],"preferred":"b","witness":false})json";

constexpr const char* kCreate =
    R"json({"arbiter":{"endpoints":["https://w1:2379","https://w2:2379"],"kind":"witness"},"block_size":4096,"clean":true,
"data":"/v/00000000-0000-4000-8000-000000000003.data","encrypted":true,
"epoch":{"id":"00000000-0000-4000-8000-000000000004","members":"both","sequencer":"a"},
"metadata":"/v/00000000-0000-4000-8000-000000000003.meta","name":"vm1",
"pair":"00000000-0000-4000-8000-000000000001","serial":"serial1","side":"a","size":1048576,"thin":false,
"volume":"00000000-0000-4000-8000-000000000003"})json";

constexpr const char* kCreateJoining =
    R"json({"arbiter":{"endpoints":["https://w1:2379","https://w2:2379"],"kind":"witness"},"block_size":512,"clean":false,
"data":"/v/00000000-0000-4000-8000-000000000005.data","epoch":{"id":"e","members":"a","number":2,"sequencer":"a",
"size":5},"metadata":"/v/00000000-0000-4000-8000-000000000005.meta","name":"vm2",
"pair":"00000000-0000-4000-8000-000000000001","serial":"serial2","side":"b","size":2097152,"thin":true,
"volume":"00000000-0000-4000-8000-000000000005"})json";

constexpr const char* kCurrentRevision =
    R"json({"document":"d","epoch":{"ancestors":[{"change":"00000000-0000-4000-8000-000000000012",
"epoch":"00000000-0000-4000-8000-000000000011","n":4}],"forced":false,"members":2,"number":3},
"head":{"change":"00000000-0000-4000-8000-000000000012","epoch":"00000000-0000-4000-8000-000000000011","n":4},
"in_flight":"00000000-0000-4000-8000-000000000012","process":"00000000-0000-4000-8000-000000000013","reads":11,
"tentative":{"change":"00000000-0000-4000-8000-000000000012","epoch":"00000000-0000-4000-8000-000000000011","n":4}})json";

constexpr const char* kCurrentRevisionAlone =
    R"json({"document":"d","epoch":{"ancestors":[{"change":"00000000-0000-4000-8000-000000000012",
"epoch":"00000000-0000-4000-8000-000000000011","n":4}],"forced":false,"members":2,"number":3},
"head":{"change":"00000000-0000-4000-8000-000000000012","epoch":"00000000-0000-4000-8000-000000000011","n":4},
"in_flight":null,"process":"00000000-0000-4000-8000-000000000013","reads":11,"tentative":null})json";

constexpr const char* kEmptyDocument =
    R"json({"initiators":[],"nodes":[],"pair":null,"tokens":[],"version":2,"volumes":[]})json";

constexpr const char* kEvents =
    R"json([{"at_ms":2,"id":1,"kind":"volume.made","message":"It is.","severity":"warning","side":"b","times":3,
"volume":"00000000-0000-4000-8000-000000000003"},{"at_ms":0,"id":0,"kind":"","message":"","severity":"info",
"side":null,"times":1,"volume":null}])json";

constexpr const char* kFence = R"json({"access":null,"endpoints":[],"fence":true,"preferred":"a","witness":false})json";

constexpr const char* kForwardedReply = R"json({"body":"b","content_type":"json","location":"/","status":200})json";

constexpr const char* kForwardedRequest = R"json({"body":"b","content_type":"json","method":"GET","target":"/"})json";

constexpr const char* kJob = R"json({"created_ms":4,
"error":"{\"detail\":\"It is there.\",\"errors\":[{\"detail\":\"Taken.\",\"pointer\":\"/name\"}],\"status\":409,\"title\":\"It contradicts what is there\",\"type\":\"urn:lockstep:problem:conflict\"}",
"finished_ms":5,"id":"00000000-0000-4000-8000-000000000010","kind":"volume.create","message":"Makes the volume.",
"parameters":"{}","progress":0.5,"runner":"00000000-0000-4000-8000-000000000002","state":"failed","step":"made",
"volume":"00000000-0000-4000-8000-000000000003"})json";

constexpr const char* kJoinOffer = R"json({"document":"d","id":{"change":"00000000-0000-4000-8000-000000000012",
"epoch":"00000000-0000-4000-8000-000000000011","n":4},"replaces":true})json";

constexpr const char* kJoinRequest =
    R"json({"joining":"{\"initiators\":[],\"nodes\":[{\"fingerprint\":\"aa\",\"id\":\"00000000-0000-4000-8000-000000000002\",\"link_address\":\"10.0.0.11:3261\",\"management_address\":\"10.0.0.11:8443\",\"name\":\"node-a\",\"portals\":[\"10.0.0.11:3260\",\"[fd00::11]:3260\"],\"side\":\"b\"}],\"pair\":null,\"tokens\":[{\"created_ms\":6,\"digest\":\"d1\",\"expires_ms\":0,\"id\":\"00000000-0000-4000-8000-000000000008\",\"name\":\"t1\",\"viewer\":true}],\"version\":2,\"volumes\":[]}",
"reads":11,"secret":"s"})json";

constexpr const char* kPlainApply =
    R"json({"arbiter":{"kind":"preferred","preferred":"a"},"node":{"id":"00000000-0000-4000-8000-000000000002","name":"node-a",
"side":"a"},"pair":{"id":"00000000-0000-4000-8000-000000000001","name":"pair1"},"partner":null,"revision":9,
"settings":{"lease_ms":1500,"resync_ceiling":0,"resync_floor":8388608},"target":{"discovery_auth":null,
"name":"iqn.2026-11.io.lockstep:pair1","portals":["10.0.0.11:3260","[fd00::11]:3260"]},"volumes":[]})json";

constexpr const char* kPlainDocument =
    R"json({"initiators":[],"nodes":[{"fingerprint":"aa","id":"00000000-0000-4000-8000-000000000002",
"link_address":"10.0.0.11:3261","management_address":"10.0.0.11:8443","name":"node-a","portals":["10.0.0.11:3260",
"[fd00::11]:3260"],"side":"a"}],"pair":{"arbiter":{"access":null,"endpoints":[],"preferred":"a","witness":false},
"created_ms":0,"discovery":null,"id":"00000000-0000-4000-8000-000000000001","link":{"secret":"link-secret",
"user":"link"},"link_mutual":{"secret":"answer-secret","user":"answer"},"name":"pair1","next_lun":0,"seal":null,
"settings":{"lease_ms":1500,"resync_ceiling":0,"resync_floor":8388608},
"target_name":"iqn.2026-11.io.lockstep:pair1"},"tokens":[],"version":2,"volumes":[{"access":[],"any_initiator":true,
"block_size":512,"created_ms":0,"encrypted":false,"first_epoch":"00000000-0000-4000-8000-000000000006",
"id":"00000000-0000-4000-8000-000000000005","import_secret":"import-secret","lifecycle":2,"lun":0,"name":"vm2",
"physical_block":4096,"read_only":false,"removable":false,"serial":"serial2","size":2097152,"thin":true,
"write_cache":false}]})json";

constexpr const char* kPlainJob =
    R"json({"created_ms":0,"error":null,"finished_ms":0,"id":"00000000-0000-0000-0000-000000000000","kind":"","message":"",
"parameters":"","progress":0.0,"runner":"00000000-0000-0000-0000-000000000000","state":"pending","step":"",
"volume":null})json";

constexpr const char* kPlainReport =
    R"json({"applied":0,"at_ms":0,"message":"","missing":[],"problems":[],"running":false,"status":null})json";

constexpr const char* kPlainTables = R"sql(
pair only=1 id='00000000-0000-4000-8000-000000000001' name='pair1' target_name='iqn.2026-11.io.lockstep:pair1' arbiter='preferred' endpoints='' preferred='a' lease_ms=1500 resync_floor=8388608 resync_ceiling=0 link_user='link' link_secret='link-secret' link_mutual_user='answer' link_mutual_secret='answer-secret' created_ms=0 next_lun=0 discovery_user=NULL discovery_secret=NULL witness_ca='' witness_certificate='' witness_key='' witness_user='' witness_password='' seal_one=NULL seal_other=NULL witness_changing=0 fence=0 beside_user=NULL beside_secret=NULL beside_mutual_user=NULL beside_mutual_secret=NULL beside_old=NULL other_lease_ms=0 link_protection='off'
nodes side='a' id='00000000-0000-4000-8000-000000000002' name='node-a' portals='10.0.0.11:3260 [fd00::11]:3260' link_address='10.0.0.11:3261' management_address='10.0.0.11:8443' fingerprint='aa' beside_link_address='' beside_management_address='' more_link_addresses='' last_link_addresses=''
volumes id='00000000-0000-4000-8000-000000000005' name='vm2' serial='serial2' lun=0 size=2097152 block_size=512 thin=1 lifecycle='deleting' first_epoch='00000000-0000-4000-8000-000000000006' created_ms=0 physical_block=4096 read_only=0 removable=0 write_cache=0 import_secret='import-secret' encrypted=0 any_initiator=1 shard=0
jobs id='00000000-0000-4000-8000-000000000010' kind='volume.create' runner='00000000-0000-4000-8000-000000000002' state='failed' step='made' progress=0.5 message='Makes the volume.' error='{"detail":"It is there.","errors":[{"detail":"Taken.","pointer":"/name"}],"status":409,"title":"It contradicts what is there","type":"urn:lockstep:problem:conflict"}' volume='00000000-0000-4000-8000-000000000003' parameters='{}' created_ms=4 finished_ms=5
events id=1 at_ms=2 kind='volume.made' severity='warning' side='b' volume='00000000-0000-4000-8000-000000000003' message='It is.' partner_id=NULL times=3 family='volume'
events id=2 at_ms=2 kind='volume.made' severity='warning' side='b' volume='00000000-0000-4000-8000-000000000003' message='It is.' partner_id=1 times=3 family='volume'
)sql";

constexpr const char* kProposal =
    R"json({"attempt":2,"base":{"change":"00000000-0000-4000-8000-000000000012","epoch":"00000000-0000-4000-8000-000000000011",
"n":4},"document":"d","epoch":{"ancestors":[{"change":"00000000-0000-4000-8000-000000000012",
"epoch":"00000000-0000-4000-8000-000000000011","n":4}],"forced":false,"members":2,"number":3},
"id":{"change":"00000000-0000-4000-8000-000000000012","epoch":"00000000-0000-4000-8000-000000000011","n":4},
"process":"00000000-0000-4000-8000-000000000013","summary":"s"})json";

constexpr const char* kReplicaOrder =
    R"json({"accept_inconsistent":false,"both":false,"clean":false,"joins":{"id":"e","member":"b","number":2,"size":5},
"kind":0,
"volume":"{\"initiators\":[],\"nodes\":[],\"pair\":null,\"tokens\":[],\"version\":2,\"volumes\":[{\"access\":[],\"any_initiator\":true,\"block_size\":512,\"created_ms\":0,\"encrypted\":false,\"first_epoch\":\"00000000-0000-4000-8000-000000000006\",\"id\":\"00000000-0000-4000-8000-000000000005\",\"import_secret\":\"import-secret\",\"lifecycle\":2,\"lun\":0,\"name\":\"vm2\",\"physical_block\":4096,\"read_only\":false,\"removable\":false,\"serial\":\"serial2\",\"size\":2097152,\"thin\":true,\"write_cache\":false}]}"})json";

constexpr const char* kReport =
    R"json({"applied":4,"at_ms":6,"message":"m","missing":["00000000-0000-4000-8000-000000000005"],
"problems":[{"message":"is not there","object":"volume vm1"}],"running":true,"status":{"findings":["It is small."],
"partner":{"connected":true,"path":"tcp","since_ms":6},"process":"p","revision":4,
"sessions":[{"address":"10.0.0.1:5","initiator":"iqn.2000-01.com.example:h1","portal":"10.0.0.11:3260",
"since_ms":7}],"uptime_ms":5,"version":"0.1.0","volumes":[{"access":"active_optimized","allocated_bytes":3,
"dirty_bytes":2,"epoch":{"arbiter":"witness","id":"e","members":"both","number":2,"sequencer":"a"},
"failover_limited":true,"id":"00000000-0000-4000-8000-000000000003","io":{"read_bytes":9,"reads":7,"write_bytes":10,
"writes":8},"reason":"r","resync":{"bytes_done":5,"bytes_per_second":6,"bytes_total":4,"running":true},
"serving":true,"size":1,"state":"in_sync"}],"witness":{"changing":true,"kind":"witness","reachable":true}}})json";

constexpr const char* kRevision =
    R"json({"change":"00000000-0000-4000-8000-000000000012","epoch":"00000000-0000-4000-8000-000000000011","n":4})json";

constexpr const char* kStanding = R"json({"asker":2,"head":3,"saved":null})json";

constexpr const char* kWholeDocument =
    R"json({"initiators":[{"chap":{"secret":"s","user":"u"},"created_ms":1,"iqn":"iqn.2000-01.com.example:h1",
"mutual":{"secret":"ms","user":"m"},"old":{"chap":{"secret":"os","user":"ou"},"mutual":{"secret":"oms","user":"om"},
"until_ms":99}},{"chap":null,"created_ms":2,"iqn":"iqn.2000-01.com.example:h2","mutual":null}],
"nodes":[{"fingerprint":"aa","id":"00000000-0000-4000-8000-000000000002","link_address":"10.0.0.11:3261",
"management_address":"10.0.0.11:8443","name":"node-a","portals":["10.0.0.11:3260","[fd00::11]:3260"],"side":"a"},
{"fingerprint":"aa","id":"00000000-0000-4000-8000-000000000007","link_address":"10.0.0.11:3261",
"management_address":"10.0.0.11:8443","name":"node-b","portals":["10.0.0.11:3260","[fd00::11]:3260"],"side":"b"}],
"pair":{"arbiter":{"access":{"ca":"ca","certificate":"cert","key":"key","password":"password","user":"user"},
"endpoints":["https://w1:2379","https://w2:2379"],"preferred":"b","witness":true},"created_ms":17,
"discovery":{"secret":"finder-secret","user":"finder"},"id":"00000000-0000-4000-8000-000000000001",
"link":{"secret":"link-secret","user":"link"},"link_beside":{"link":{"secret":"l2-secret","user":"l2"},
"link_mutual":{"secret":"a2-secret","user":"a2"},"old":true},"link_mutual":{"secret":"answer-secret",
"user":"answer"},"name":"pair1","next_lun":5,"seal":{"one":"seal-one","other":"seal-other"},
"settings":{"lease_ms":2000,"resync_ceiling":2,"resync_floor":1},"target_name":"iqn.2026-11.io.lockstep:pair1"},
"tokens":[{"created_ms":6,"digest":"d1","expires_ms":0,"id":"00000000-0000-4000-8000-000000000008","name":"t1",
"viewer":false},{"created_ms":7,"digest":"d2","expires_ms":8,"id":"00000000-0000-4000-8000-000000000009",
"name":"t2","viewer":true}],"version":8,"volumes":[{"access":["iqn.2000-01.com.example:h1",
"iqn.2000-01.com.example:h2"],"any_initiator":false,"block_size":4096,"copies":[{"folder":"","number":1,
"retired":false},{"folder":"/fast","number":2,"retired":true}],"created_ms":3,"encrypted":true,
"first_epoch":"00000000-0000-4000-8000-000000000004","id":"00000000-0000-4000-8000-000000000003","import_secret":"",
"lifecycle":1,"lun":7,"name":"vm1","physical_block":4096,"read_only":true,"removable":true,"serial":"serial1",
"size":1048576,"thin":false,"write_cache":true},{"access":[],"any_initiator":true,"block_size":512,"created_ms":0,
"encrypted":false,"first_epoch":"00000000-0000-4000-8000-000000000006","id":"00000000-0000-4000-8000-000000000005",
"import_secret":"import-secret","lifecycle":2,"lun":0,"name":"vm2","physical_block":4096,"read_only":false,
"removable":false,"serial":"serial2","size":2097152,"thin":true,"write_cache":false}]})json";

constexpr const char* kWholeTables = R"sql(
pair only=1 id='00000000-0000-4000-8000-000000000001' name='pair1' target_name='iqn.2026-11.io.lockstep:pair1' arbiter='witness' endpoints='https://w1:2379 https://w2:2379' preferred='b' lease_ms=2000 resync_floor=1 resync_ceiling=2 link_user='link' link_secret='link-secret' link_mutual_user='answer' link_mutual_secret='answer-secret' created_ms=17 next_lun=5 discovery_user='finder' discovery_secret='finder-secret' witness_ca='ca' witness_certificate='cert' witness_key='key' witness_user='user' witness_password='password' seal_one='seal-one' seal_other='seal-other' witness_changing=0 fence=0 beside_user='l2' beside_secret='l2-secret' beside_mutual_user='a2' beside_mutual_secret='a2-secret' beside_old=1 other_lease_ms=0 link_protection='off'
nodes side='a' id='00000000-0000-4000-8000-000000000002' name='node-a' portals='10.0.0.11:3260 [fd00::11]:3260' link_address='10.0.0.11:3261' management_address='10.0.0.11:8443' fingerprint='aa' beside_link_address='' beside_management_address='' more_link_addresses='' last_link_addresses=''
nodes side='b' id='00000000-0000-4000-8000-000000000007' name='node-b' portals='10.0.0.11:3260 [fd00::11]:3260' link_address='10.0.0.11:3261' management_address='10.0.0.11:8443' fingerprint='aa' beside_link_address='' beside_management_address='' more_link_addresses='' last_link_addresses=''
volumes id='00000000-0000-4000-8000-000000000003' name='vm1' serial='serial1' lun=7 size=1048576 block_size=4096 thin=0 lifecycle='ready' first_epoch='00000000-0000-4000-8000-000000000004' created_ms=3 physical_block=4096 read_only=1 removable=1 write_cache=1 import_secret='' encrypted=1 any_initiator=0 shard=0
volumes id='00000000-0000-4000-8000-000000000005' name='vm2' serial='serial2' lun=0 size=2097152 block_size=512 thin=1 lifecycle='deleting' first_epoch='00000000-0000-4000-8000-000000000006' created_ms=0 physical_block=4096 read_only=0 removable=0 write_cache=0 import_secret='import-secret' encrypted=0 any_initiator=1 shard=0
access volume='00000000-0000-4000-8000-000000000003' initiator='iqn.2000-01.com.example:h1'
access volume='00000000-0000-4000-8000-000000000003' initiator='iqn.2000-01.com.example:h2'
copies volume='00000000-0000-4000-8000-000000000003' side='b' number=2 folder='/fast' retired=1 unmade=0
initiators iqn='iqn.2000-01.com.example:h1' chap_user='u' chap_secret='s' mutual_user='m' mutual_secret='ms' created_ms=1 old_user='ou' old_secret='os' old_mutual_user='om' old_mutual_secret='oms' old_until_ms=99
initiators iqn='iqn.2000-01.com.example:h2' chap_user=NULL chap_secret=NULL mutual_user=NULL mutual_secret=NULL created_ms=2 old_user=NULL old_secret=NULL old_mutual_user=NULL old_mutual_secret=NULL old_until_ms=NULL
tokens id='00000000-0000-4000-8000-000000000008' name='t1' digest='d1' role='admin' created_ms=6 expires_ms=0
tokens id='00000000-0000-4000-8000-000000000009' name='t2' digest='d2' role='viewer' created_ms=7 expires_ms=8
jobs id='00000000-0000-4000-8000-000000000010' kind='volume.create' runner='00000000-0000-4000-8000-000000000002' state='failed' step='made' progress=0.5 message='Makes the volume.' error='{"detail":"It is there.","errors":[{"detail":"Taken.","pointer":"/name"}],"status":409,"title":"It contradicts what is there","type":"urn:lockstep:problem:conflict"}' volume='00000000-0000-4000-8000-000000000003' parameters='{}' created_ms=4 finished_ms=5
events id=1 at_ms=2 kind='volume.made' severity='warning' side='b' volume='00000000-0000-4000-8000-000000000003' message='It is.' partner_id=NULL times=3 family='volume'
events id=2 at_ms=2 kind='volume.made' severity='warning' side='b' volume='00000000-0000-4000-8000-000000000003' message='It is.' partner_id=1 times=3 family='volume'
)sql";

}  // namespace lockstep::mgmt::golden
