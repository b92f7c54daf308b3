//! Every generator of `kubectl create`, `run`, `expose` and `autoscale`.

use super::{All, Exactly, Fails, Row, check, start};

#[rustfmt::skip]
const COMMANDS: &[Row<'_>] = &[
    ("create ns g", "", 0, Exactly("namespace/g created\n")),
    ("create configmap m --from-literal=a=1 -n g", "", 0, Exactly("configmap/m created\n")),
    ("create secret generic s --from-literal=a=1 -n g", "", 0, Exactly("secret/s created\n")),
    ("get secret s -n g -o jsonpath={.type}:{.data.a}", "", 0, Exactly("Opaque:MQ==")),
    ("create secret docker-registry d --docker-username=u --docker-password=p --docker-email=e@x --docker-server=https://r -n g", "", 0, Exactly("secret/d created\n")),
    ("get secret d -n g -o jsonpath={.type}", "", 0, Exactly("kubernetes.io/dockerconfigjson")),
    ("create deployment web --image=nginx:1 --replicas=2 --port=80 -n g", "", 0, Exactly("deployment.apps/web created\n")),
    ("get deployment web -n g -o jsonpath={.spec.template.spec.containers[0].imagePullPolicy},{.spec.template.spec.containers[0].ports[0].protocol}", "", 0, Exactly("IfNotPresent,TCP")),
    ("create job once --image=busybox -n g -- date", "", 0, Exactly("job.batch/once created\n")),
    ("get job once -n g -o jsonpath={.spec.completions},{.spec.backoffLimit},{.spec.template.spec.restartPolicy}", "", 0, Exactly("1,6,Never")),
    ("create cronjob often --image=busybox --schedule='*/5 * * * *' -n g", "", 0, Exactly("cronjob.batch/often created\n")),
    ("create cronjob wrong --image=busybox --schedule=soon -n g", "", 0, Fails("Invalid value: \"soon\"")),
    ("create job manual --from=cronjob/often -n g", "", 0, Exactly("job.batch/manual created\n")),
    ("get job manual -n g -o jsonpath={.metadata.ownerReferences[0].kind}", "", 0, Exactly("CronJob")),
    ("create service clusterip c --tcp=80:8080 -n g", "", 0, Exactly("service/c created\n")),
    ("get service c -n g -o jsonpath={.spec.ports[0].targetPort},{.spec.type},{.spec.ipFamilyPolicy}", "", 0, Exactly("8080,ClusterIP,SingleStack")),
    ("create service clusterip headless --clusterip=None -n g", "", 0, Exactly("service/headless created\n")),
    ("create service nodeport np --tcp=80 --node-port=31234 -n g", "", 0, Exactly("service/np created\n")),
    ("create service nodeport np2 --tcp=80 --node-port=31234 -n g", "", 0, Fails("provided port is already allocated")),
    ("create service loadbalancer lb --tcp=80 -n g", "", 0, Exactly("service/lb created\n")),
    ("create service externalname ex --external-name=example.com -n g", "", 0, Exactly("service/ex created\n")),
    ("get services -n g", "", 0, All(&["NAME       TYPE           CLUSTER-IP", "ex         ExternalName   <none>", "headless   ClusterIP      None"])),
    ("create ingress in --rule=host.example/*=c:80 --class=nginx -n g", "", 0, Exactly("ingress.networking.k8s.io/in created\n")),
    ("get ingress in -n g -o jsonpath={.spec.rules[0].http.paths[0].pathType},{.spec.ingressClassName}", "", 0, Exactly("Prefix,nginx")),
    ("create role r --verb=get,list --resource=pods,deployments.apps -n g", "", 0, Exactly("role.rbac.authorization.k8s.io/r created\n")),
    ("create rolebinding rb --role=r --user=alice --group=dev --serviceaccount=g:acc -n g", "", 0, Exactly("rolebinding.rbac.authorization.k8s.io/rb created\n")),
    ("create clusterrole cr --verb=get --resource=nodes", "", 0, Exactly("clusterrole.rbac.authorization.k8s.io/cr created\n")),
    ("create clusterrole urls --verb=get --non-resource-url=/logs/*", "", 0, Exactly("clusterrole.rbac.authorization.k8s.io/urls created\n")),
    ("create clusterrole sum --aggregation-rule=app=x", "", 0, Exactly("clusterrole.rbac.authorization.k8s.io/sum created\n")),
    ("create clusterrolebinding crb --clusterrole=cr --user=bob", "", 0, Exactly("clusterrolebinding.rbac.authorization.k8s.io/crb created\n")),
    ("auth can-i list pods -n g --as=alice", "", 0, Exactly("yes\n")),
    ("auth can-i get nodes --as=bob -q", "", 0, Exactly("")),
    ("auth can-i delete pods -n g --as=alice", "", 0, Fails("")),
    ("create serviceaccount acc -n g", "", 0, Exactly("serviceaccount/acc created\n")),
    ("create token acc -n g --duration=1h", "", 24, All(&["eyJ"])),
    ("create token none -n g", "", 24, Fails("serviceaccounts \"none\" not found")),
    ("create quota q --hard=cpu=1,pods=2 --scopes=NotTerminating -n g", "", 0, Exactly("resourcequota/q created\n")),
    ("create poddisruptionbudget pdb --selector=app=web --min-available=1 -n g", "", 0, Exactly("poddisruptionbudget.policy/pdb created\n")),
    ("create priorityclass high --value=1000 --description='for what matters' --preemption-policy=Never", "", 0, Exactly("priorityclass.scheduling.k8s.io/high created\n")),
    ("get priorityclass high", "", 0, All(&["high   1000", "false"])),
    ("create serviceaccount default -n g", "", 0, Exactly("serviceaccount/default created\n")),
    ("run solo --image=nginx:1 --labels=app=solo --port=80 --env=A=1 -n g", "", 0, Exactly("pod/solo created\n")),
    ("get pod solo -n g", "", 0, All(&["NAME   READY   STATUS    RESTARTS   AGE\n", "solo   0/1     Pending   0"])),
    ("run gone --image=nginx --dry-run=server -n g -o name", "", 18, Exactly("pod/gone\n")),
    ("run x --image=-wrong- -n g", "", 0, Fails("Invalid image name")),
    ("expose deployment web --port=80 --target-port=8080 -n g", "", 0, Exactly("service/web exposed\n")),
    ("get service web -n g -o jsonpath={.spec.selector.app}", "", 0, Exactly("web")),
    ("expose pod solo --port=80 --name=solo-svc --type=NodePort -n g", "", 0, Exactly("service/solo-svc exposed\n")),
    ("autoscale deployment web --min=1 --max=5 --cpu-percent=80 -n g", "", 0, Exactly("horizontalpodautoscaler.autoscaling/web autoscaled\n")),
    ("get hpa web -n g -o jsonpath={.spec.maxReplicas},{.spec.metrics[0].resource.target.averageUtilization}", "", 24, Exactly("5,80")),
    ("create deployment web --image=nginx -n g --dry-run=client -o name", "", 18, Exactly("deployment.apps/web\n")),
    ("create deployment other --image=nginx -n g --dry-run=server -o jsonpath={.metadata.uid}", "", 18, All(&["-"])),
    ("get deployment other -n g", "", 0, Fails("NotFound")),
    ("create configmap late --from-literal=a=1 -n none", "", 0, Fails("namespaces \"none\" not found")),
    ("create configmap wrong_name --from-literal=a=1 -n g", "", 0, Fails("a lowercase RFC 1123 subdomain")),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generators() {
    let (server, kubectl) = start(&[]).await;
    check(&kubectl, COMMANDS);
    // Any key pair will do for a secret: the administrator's own.
    let folder = server.data_dir();
    let mut paths = Vec::new();
    for (file, field) in [("t.crt", "client-certificate-data"), ("t.key", "client-key-data")] {
        let template = format!("{{{{index (index .users 0).user \"{field}\" | base64decode}}}}");
        let pem = kubectl.run(&format!("config view --raw -o go-template='{template}'"), "").stdout;
        let path = folder.join(file);
        std::fs::write(&path, pem).unwrap();
        paths.push(path.display().to_string());
    }
    let tls = format!("create secret tls t --cert={} --key={} -n g", paths[0], paths[1]);
    check(
        &kubectl,
        &[
            (&tls, "", 0, Exactly("secret/t created\n")),
            ("get secret t -n g -o jsonpath={.type}", "", 0, Exactly("kubernetes.io/tls")),
        ],
    );
}
