"""What an operator written in Python does: typed objects, lists, patches, a watch, a custom resource."""
import sys, threading, time
import urllib3
from kubernetes import client, watch

urllib3.disable_warnings()
url, token = sys.argv[1:3]
config = client.Configuration()
config.host, config.verify_ssl = url, False
config.api_key = {"authorization": "Bearer " + token}
api = client.ApiClient(config)
core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
extensions, custom = client.ApiextensionsV1Api(api), client.CustomObjectsApi(api)
NS = "python"

assert client.VersionApi(api).get_code().major == "1"
core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NS)))

# A watch that sees what follows.
seen = []
def follow():
    for event in watch.Watch().stream(core.list_namespaced_config_map, NS, resource_version=start, timeout_seconds=20):
        seen.append((event["type"], event["object"].metadata.name))
        if event["type"] == "DELETED": return
start = core.list_namespaced_config_map(NS).metadata.resource_version
follower = threading.Thread(target=follow, daemon=True)
follower.start()

made = core.create_namespaced_config_map(NS, client.V1ConfigMap(metadata=client.V1ObjectMeta(name="a"), data={"k": "1"}))
assert made.metadata.uid and made.metadata.resource_version
made.data["k"] = "2"
changed = core.replace_namespaced_config_map("a", NS, made)
assert changed.data == {"k": "2"}
try:
    core.replace_namespaced_config_map("a", NS, made)
    raise SystemExit("an outdated version must conflict")
except client.ApiException as error:
    assert error.status == 409, error
patched = core.patch_namespaced_config_map("a", NS, {"data": {"more": "3"}})
assert patched.data == {"k": "2", "more": "3"}, patched.data
assert [item.metadata.name for item in core.list_namespaced_config_map(NS, limit=1, field_selector="metadata.name=a").items] == ["a"]
core.delete_namespaced_config_map("a", NS)
follower.join(timeout=20)
kinds = [kind for kind, name in seen if name == "a"]
assert kinds == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"], seen

labels = {"app": "web"}
pod = client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="nginx")]))
spec = client.V1DeploymentSpec(replicas=2, selector=client.V1LabelSelector(match_labels=labels), template=pod)
web = apps.create_namespaced_deployment(NS, client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec))
assert web.spec.template.spec.containers[0].image_pull_policy == "Always"
assert apps.patch_namespaced_deployment_scale("web", NS, {"spec": {"replicas": 5}}).spec.replicas == 5
assert apps.read_namespaced_deployment("web", NS).spec.replicas == 5

schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}}}
extensions.create_custom_resource_definition({
    "metadata": {"name": "widgets.python.example.com"},
    "spec": {"group": "python.example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
             "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]}})
for _ in range(100):
    conditions = extensions.read_custom_resource_definition("widgets.python.example.com").status.conditions or []
    if any(c.type == "Established" and c.status == "True" for c in conditions): break
    time.sleep(0.1)
widget = {"apiVersion": "python.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 2}}
place = ("python.example.com", "v1", NS, "widgets")
for attempt in range(50):
    try:
        custom.create_namespaced_custom_object(*place, widget)
        break
    except client.ApiException as error:
        if error.status != 404 or attempt == 49: raise
        time.sleep(0.1)
assert custom.get_namespaced_custom_object(*place, "w")["spec"] == {"size": 2}
try:
    custom.patch_namespaced_custom_object(*place, "w", {"spec": {"size": 0}})
    raise SystemExit("a size below the minimum must be refused")
except client.ApiException as error:
    assert error.status == 422, error

# A watch of custom objects: the initial state first, then changes; a timeout ends it without an error.
changer = threading.Timer(0.2, lambda: custom.patch_namespaced_custom_object(*place, "w", {"spec": {"size": 3}}))
changer.start()
sizes = []
for event in watch.Watch().stream(custom.list_namespaced_custom_object, *place, timeout_seconds=20):
    sizes.append((event["type"], event["object"]["spec"]["size"]))
    if len(sizes) == 2: break
assert sizes == [("ADDED", 2), ("MODIFIED", 3)], sizes
assert list(watch.Watch().stream(core.list_namespaced_secret, NS, timeout_seconds=1)) == []

# The client resumes by itself where the server ends the stream, from the last resourceVersion that it saw.
stream, names = watch.Watch(), []
maker = threading.Timer(1.5, lambda: core.create_namespaced_config_map(NS, client.V1ConfigMap(metadata=client.V1ObjectMeta(name="late"))))
maker.start()
for attempt in range(20):
    for event in stream.stream(core.list_namespaced_config_map, NS, resource_version=stream.resource_version or "0", timeout_seconds=1, allow_watch_bookmarks=True):
        if event["type"] != "BOOKMARK": names.append(event["object"].metadata.name)
    if "late" in names: break
assert names.count("late") == 1, names

# A revision that never was is too old or too new, and says so.
try:
    for event in watch.Watch().stream(core.list_namespaced_config_map, NS, resource_version="1", timeout_seconds=5): break
except client.ApiException as error:
    assert error.status == 410, error

# Lists in pages show one moment.
for number in range(5):
    core.create_namespaced_config_map(NS, client.V1ConfigMap(metadata=client.V1ObjectMeta(name=f"p{number}", labels={"page": "y"})))
page = core.list_namespaced_config_map(NS, label_selector="page=y", limit=2)
core.delete_namespaced_config_map("p4", NS)
found, moment = [i.metadata.name for i in page.items], page.metadata.resource_version
while page.metadata._continue:
    page = core.list_namespaced_config_map(NS, label_selector="page=y", limit=2, _continue=page.metadata._continue)
    found += [i.metadata.name for i in page.items]
    assert page.metadata.resource_version == moment
assert found == ["p0", "p1", "p2", "p3", "p4"], found

custom.delete_namespaced_custom_object(*place, "w")
core.delete_collection_namespaced_config_map(NS, label_selector="page=y")
assert core.list_namespaced_config_map(NS, label_selector="page=y").items == []
core.delete_namespace(NS)
