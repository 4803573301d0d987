# Makes tests/data/calibrate/scipy-splines.json with scipy 1.17.1, numpy 2.4.6.
import numpy as np, json
from scipy.interpolate import make_smoothing_spline
kib = np.geomspace(0.5, 1020, 28)
cases=[]
rng=np.random.default_rng(20261126)
def stage(kind,b):
    if kind=="affine": return 2000+0.35*b
    if kind=="root": return 900+45*np.sqrt(b)
    return np.where(b<65536, 3000+0.05*b, 3000+0.05*65536+0.9*(b-65536))
for kind in ["affine","root","kink"]:
    for repeats in [30,5]:
        b=np.unique(np.round(kib*1024/512).astype(int)*512)
        n=rng.integers(repeats-2,repeats+3,len(b))
        t=stage(kind,b)
        mean=np.array([np.mean(tt*(1+0.05*rng.standard_normal(k))) for tt,k in zip(t,n)])
        x=np.log(b.astype(float)); y=np.log(mean); w=n/np.mean(n)
        lam=10.0**rng.uniform(-4,0)
        s=make_smoothing_spline(x,y,w=w,lam=lam)
        g=make_smoothing_spline(x,y,w=w)
        mid=(x[:-1]+x[1:])/2
        cases.append(dict(x=x.tolist(),y=y.tolist(),weights=w.tolist(),**{"lambda":lam},fitted=s(x).tolist(),between=[[float(a),float(s(a))] for a in mid],chosen=g(x).tolist(),truth=np.log(t).tolist()))
# Few, unevenly spaced points.
x=np.log(np.array([512,1024,4096,65536,262144],float)); y=np.array([1.,1.02,1.1,1.5,1.9])
w=np.ones(5); s=make_smoothing_spline(x,y,w=w,lam=0.1); g=make_smoothing_spline(x,y,w=w)
mid=(x[:-1]+x[1:])/2
cases.append(dict(x=x.tolist(),y=y.tolist(),weights=w.tolist(),**{"lambda":0.1},fitted=s(x).tolist(),between=[[float(a),float(s(a))] for a in mid],chosen=g(x).tolist(),truth=y.tolist()))
json.dump(cases,open("tests/data/calibrate/scipy-splines.json","w"),indent=0)
