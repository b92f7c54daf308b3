"""How tests use the package: each has a server of its own."""

import pytest
from kubernetes import client, config
from kubernetes.client.rest import ApiException


@pytest.fixture
def api(pintle_server):
    return client.CoreV1Api(config.new_client_from_config(pintle_server.kubeconfig))


def config_map(name):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data={"hello": "world"})


def test_objects_are_stored(api):
    api.create_namespaced_config_map("default", config_map("greeting"))
    assert api.read_namespaced_config_map("greeting", "default").data == {"hello": "world"}


def test_each_test_has_an_empty_server(api):
    with pytest.raises(ApiException) as error:
        api.read_namespaced_config_map("greeting", "default")
    assert error.value.status == 404


def test_one_server_for_the_session(pintle_session_server):
    api = client.CoreV1Api(config.new_client_from_config(pintle_session_server.kubeconfig))
    assert {"default", "kube-system"} <= {item.metadata.name for item in api.list_namespace().items}
